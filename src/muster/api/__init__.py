"""Typed views of API objects: one module per API group.

Structs hold only the fields that muster reads. What muster copies without reading (a pod template, a
volume source) stays a plain JSON `Object`, so that nothing a user wrote is lost. Writes are whole
new objects or patches, never a re-encoded struct.
"""
